from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('policies', '0001_initial'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='policy',
            name='policy_state',
        ),
        migrations.AddConstraint(
            model_name='policy',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['importing', 'ready'])), name='policy_state'),
        ),
    ]
